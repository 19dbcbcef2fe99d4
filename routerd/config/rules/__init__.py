"""The rules of a configuration: of one section, and between all sections."""
