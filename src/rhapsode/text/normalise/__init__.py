"""Writes out what is not written as words: numbers, dates, money, units, abbreviations, addresses of the web."""
