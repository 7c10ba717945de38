"""The inner loop: solver, gradient and objective."""
