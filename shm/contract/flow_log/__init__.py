"""What several processes and the pipeline know of the flow log: schema, sequence numbers, configuration."""
