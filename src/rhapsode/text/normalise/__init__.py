"""Writes out what is not written as words: numbers, dates, money, units, abbreviations, web addresses."""
