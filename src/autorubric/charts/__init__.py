"""Charts as SVG documents: made on the server, without scripts or fonts, with equal bytes for equal data.

Colours are attributes, so that a chart stands alone in a file; each kind of mark also has a class, so that a page's
style sheet can recolour it.
"""
