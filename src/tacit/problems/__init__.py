"""Problems on disk: a folder with a model, features, demonstrations and perhaps a truth."""
