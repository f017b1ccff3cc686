"""C++: the only place that knows how it is written."""
