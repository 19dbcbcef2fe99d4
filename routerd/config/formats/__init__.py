"""The formats of a configuration file: .conf, .json and .toml become sections of settings."""
