"""The watch's function; the folder is its asset."""
