"""From a scenario to a prediction: inputs, run length, replications, uncertainty."""
