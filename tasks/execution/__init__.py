"""The execution benchmark of paper section 13: refresh, attention alone, recovery.

What times stands apart from what stores: all but `identity`, `work` and `recovery_work` run where only torch,
transformers, triton and numpy are installed.
"""
