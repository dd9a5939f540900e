"""KV repair: edits, shift, segmentation, relevance, allocators, executors and decoding."""
