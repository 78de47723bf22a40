"""What ``interpose new`` writes."""
