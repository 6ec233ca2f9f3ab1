-- Whether a fact is there: 0 or 1. KEYS and ARGV: those of the fact.
return fact_is() and 1 or 0
