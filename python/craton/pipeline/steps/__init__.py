"""What a pipeline is made of: functions with their decorators, what they take, and the graph of them."""
