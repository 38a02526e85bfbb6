"""`rhapsode bench quality`: is what was said what was written, and does it sound right?"""
