"""Which queries can be answered from others (SyncSQL 5.2): containment of predicates and of data parts."""
