"""Many draws of one question, resumable: the paper reproduced and measured."""
