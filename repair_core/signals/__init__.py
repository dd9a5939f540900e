"""Signals: what allocators score tokens by. Each is a pure function of a model and caches; a context keeps them."""
