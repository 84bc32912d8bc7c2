"""Engines that keep streams. They persist what `protocol` decides and decide nothing themselves."""
