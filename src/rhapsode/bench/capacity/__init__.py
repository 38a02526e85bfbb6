"""`rhapsode bench capacity`: how many replicas some traffic needs, by simulation from the measured curve of one."""
