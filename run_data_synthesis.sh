#!/usr/bin/env bash
# From queries to rubrics. Fill in section 1, or set the same variables in the environment, and run the script.
# If nothing is set, it runs the example queries on the offline model, a stand-in for trying things out.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

# The command that resumes this run, with the variables that are set now, without the values of keys.
again=""
for name in $(sed -n 's/^: "${\([A-Z_]*\):=.*/\1/p' "${BASH_SOURCE[0]}"); do
  case "$name" in
    *_API_KEY) if [ -n "${!name:-}" ]; then again+="$name=\"\$$name\" "; fi ;;
    *) if [ -n "${!name+set}" ]; then again+="$name=$(printf %q "${!name}") "; fi ;;
  esac
done
again+="$(printf '%q ' "$0" "$@")"
export AUTORUBRIC_AGAIN="${again% }"

# ---------------------------------------------------------------------------------------------------
# 1) Fill here
# ---------------------------------------------------------------------------------------------------
: "${INPUT_JSONL:=}"            # queries: one JSON object per line
: "${QUESTION_COLUMN:=question}" # column with the query, or a path such as turns[0]
: "${ID_COLUMN:=}"              # column that identifies a row (recommended)
: "${OUTPUT_DIR:=}"             # run directory: step0_*.jsonl ... step4_*.jsonl, final.jsonl, final.parquet

# Models: provider/model, or the served name together with a base URL, or MODEL@BASE_URL.
: "${MODEL:=}"                  # for every role that is not set below
: "${REFERENCE_MODEL:=}"
: "${RESPONSE_MODEL_A:=}"
: "${RESPONSE_MODEL_B:=}"
: "${RUBRIC_MODEL_A:=}"
: "${RUBRIC_MODEL_B:=}"         # optional; without it, the first candidate rubric is used as the merged one
: "${MERGE_MODEL:=}"
: "${AUGMENT_MODEL:=}"

# Endpoints (OpenAI-compatible), if they are not the provider's own.
: "${BASE_URL:=}"               # for every role that is not set below
: "${REFERENCE_BASE_URL:=}"
: "${RESPONSE_A_BASE_URL:=}"
: "${RESPONSE_B_BASE_URL:=}"
: "${RUBRIC_A_BASE_URL:=}"
: "${RUBRIC_B_BASE_URL:=}"
: "${MERGE_BASE_URL:=}"
: "${AUGMENT_BASE_URL:=}"

# API keys. They are passed through the environment only, never on the command line.
# A role without its own key uses its provider's variable, such as OPENAI_API_KEY. A host outside the provider table
# gets it only if you name it: ./run_data_synthesis.sh --api-key-env OPENAI_API_KEY
: "${REFERENCE_API_KEY:=}"
: "${RESPONSE_A_API_KEY:=}"
: "${RESPONSE_B_API_KEY:=}"
: "${RUBRIC_A_API_KEY:=}"
: "${RUBRIC_B_API_KEY:=}"
: "${MERGE_API_KEY:=}"
: "${AUGMENT_API_KEY:=}"

: "${CONCURRENCY:=256}"         # maximum concurrent requests
: "${RETRY:=5}"                 # maximum retries of a request after a transient error
: "${TIMEOUT:=1200}"            # seconds before one attempt times out
: "${TEMPERATURE:=0.2}"         # reference, rubric, merge, augment
: "${RESPONSE_TEMPERATURE:=1.0}"
: "${REF_MAX_TOKENS:=8192}"
: "${RESPONSE_MAX_TOKENS:=8192}"
: "${RUBRIC_MAX_TOKENS:=}"        # empty: what the prompts, or the merged rubrics, require
: "${MERGE_MAX_TOKENS:=}"
: "${AUGMENT_MAX_TOKENS:=}"
: "${MAX_TOKENS_CEILING:=32768}" # truncated replies are requested again with up to this limit
: "${SAVE_EVERY:=200}"          # write the step files every N rows; replies are saved immediately
: "${MAX_CRITERIA:=}"           # maximum criteria per rubric, those with the most points; empty or 0: all

# ---------------------------------------------------------------------------------------------------
# 2) Run
# ---------------------------------------------------------------------------------------------------
export REFERENCE_API_KEY RESPONSE_A_API_KEY RESPONSE_B_API_KEY RUBRIC_A_API_KEY RUBRIC_B_API_KEY \
  MERGE_API_KEY AUGMENT_API_KEY

arguments=()
pass() { # pass FLAG VALUE: leave out what is empty
  if [ -n "$2" ]; then arguments+=("$1" "$2"); fi
}

example=""
if [ -z "$INPUT_JSONL" ]; then
  example=yes
  INPUT_JSONL="$here/examples/queries.jsonl"
  : "${ID_COLUMN:=id}"
fi
named="$MODEL$REFERENCE_MODEL$RESPONSE_MODEL_A$RESPONSE_MODEL_B$RUBRIC_MODEL_A$RUBRIC_MODEL_B$MERGE_MODEL$AUGMENT_MODEL"
placed="$BASE_URL$REFERENCE_BASE_URL$RESPONSE_A_BASE_URL$RESPONSE_B_BASE_URL$RUBRIC_A_BASE_URL$RUBRIC_B_BASE_URL"
placed+="$MERGE_BASE_URL$AUGMENT_BASE_URL"
keyed="$REFERENCE_API_KEY$RESPONSE_A_API_KEY$RESPONSE_B_API_KEY$RUBRIC_A_API_KEY$RUBRIC_B_API_KEY"
keyed+="$MERGE_API_KEY$AUGMENT_API_KEY"
case " $* " in
  *" --models"* | *" -m "* | *" --config"* | *" -c "* | *-model*) ;;
  *)
    if [ -z "$example$named" ]; then
      echo "run_data_synthesis.sh: no model is set. Set MODEL, or REFERENCE_MODEL, RESPONSE_MODEL_A," \
        "RESPONSE_MODEL_B, RUBRIC_MODEL_A, MERGE_MODEL and AUGMENT_MODEL, in section 1 or in the environment, or" \
        "pass --models MODEL for all of them. --models builtin/offline tries the pipeline without a model." >&2
      exit 2
    fi
    # An address or a key means that the user has a model.
    if [ -n "$example" ] && [ -z "$named$placed$keyed" ]; then pass --models builtin/offline; fi
    ;;
esac

pass --out "${OUTPUT_DIR:-$here/out}"
pass --question-column "$QUESTION_COLUMN"
pass --id-column "$ID_COLUMN"
pass --models "$MODEL"
pass --base-url "$BASE_URL"
pass --reference-model "$REFERENCE_MODEL"
pass --response-model-a "$RESPONSE_MODEL_A"
pass --response-model-b "$RESPONSE_MODEL_B"
pass --rubric-model-a "$RUBRIC_MODEL_A"
pass --rubric-model-b "$RUBRIC_MODEL_B"
pass --merge-model "$MERGE_MODEL"
pass --augment-model "$AUGMENT_MODEL"
pass --reference-base-url "$REFERENCE_BASE_URL"
pass --response-a-base-url "$RESPONSE_A_BASE_URL"
pass --response-b-base-url "$RESPONSE_B_BASE_URL"
pass --rubric-a-base-url "$RUBRIC_A_BASE_URL"
pass --merge-base-url "$MERGE_BASE_URL"
pass --augment-base-url "$AUGMENT_BASE_URL"
if [ -n "$MODEL$RUBRIC_MODEL_B" ]; then pass --rubric-b-base-url "$RUBRIC_B_BASE_URL"; fi
pass --concurrency "$CONCURRENCY"
pass --retry "$RETRY"
pass --timeout "$TIMEOUT"
pass --temperature "$TEMPERATURE"
pass --response-temperature "$RESPONSE_TEMPERATURE"
pass --ref-max-tokens "$REF_MAX_TOKENS"
pass --response-max-tokens "$RESPONSE_MAX_TOKENS"
pass --rubric-max-tokens "$RUBRIC_MAX_TOKENS"
pass --merge-max-tokens "$MERGE_MAX_TOKENS"
pass --augment-max-tokens "$AUGMENT_MAX_TOKENS"
pass --max-tokens-ceiling "$MAX_TOKENS_CEILING"
pass --save-every "$SAVE_EVERY"
pass --max-criteria "$MAX_CRITERIA"

python="$here/.venv/bin/python"
[ -x "$python" ] || python="$(command -v python3 || command -v python)"
exec "$python" -m autorubric synthesize "$INPUT_JSONL" "${arguments[@]}" "$@"
