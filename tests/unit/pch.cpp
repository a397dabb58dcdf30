// Exists for the precompiled header that goes with it.
