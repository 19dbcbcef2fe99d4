"""The data lane: transfers, flow and dispositions without the engine."""
