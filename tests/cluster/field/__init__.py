"""Cases from the field: what people tripped over, with the right behaviour. Each docstring has the case's number."""
