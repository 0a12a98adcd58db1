"""The rows of simplify, by family. Each is exact unless its comment says what it changes."""
