"""The converter: other programs' models become model files for transformer.h. main.py has its manual."""
