"""Learning from a stream: `stream` holds the learner, `partial_fit` the method that estimators inherit."""
