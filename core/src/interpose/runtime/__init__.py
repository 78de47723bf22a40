"""One run: the pipeline of its layers, its record, its failures and its ending."""
