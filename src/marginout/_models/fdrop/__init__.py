"""The worst deletion of K features (FDROP): problem and solver."""
