-- Reads a counter. KEYS: the counters. ARGV: the row ('' for an object) and the index. Reply: the value; 0 for a missing one.
return counter_get(KEYS[1], ARGV[1], ARGV[2]) or 0
