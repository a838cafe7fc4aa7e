"""A reward service for trainers on other machines; needs the extra `[ui]` (starlette, uvicorn)."""
