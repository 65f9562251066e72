"""The laboratory: the simulator, the papers' experiments, and algorithms that no daemon runs.

The numbered *pages* of the papers, in their experiments and algorithms, are sources.
"""
