-- Whether a fact exists. KEYS and ARGV: those of the fact. Reply: 0 or 1.
return fact_exists() and 1 or 0
