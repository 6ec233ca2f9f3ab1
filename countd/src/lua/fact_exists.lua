-- Whether a fact exists. KEYS and ARGV: the keys and arguments of the fact. Reply: 0 or 1.
return fact_exists() and 1 or 0
