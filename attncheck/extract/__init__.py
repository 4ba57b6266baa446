"""From a whole model to the attention nodes in it, each as a scenario or as a model of one node."""
