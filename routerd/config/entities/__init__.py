"""The entity types of a configuration: attributes with types, defaults, bounds and descriptions."""
