"""The workloads of the comparison, a module each."""
