"""View delta functions: how one temporal part of a view follows from parts of what it reads, and from the last."""
