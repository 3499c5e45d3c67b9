"""Solutions over a grid of C and noise, and the choice among them."""
