"""Run the tables and figures of "Dropout Training for SVMs with Data Augmentation" again, on real data."""
