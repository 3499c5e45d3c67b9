"""The tables and figures of "Dropout Training for SVMs with Data Augmentation", run again on real data."""
