"""How a change flows: what a log means as a relation, as tagged tuples, and how a view follows from its inputs."""
