"""Scenes by CLEVR's rules: a sampler, a ray tracer, and a writer of CLEVR's layout."""
