"""What programs of all folders expect of calls that fail."""


def fails(kind, words, call):
    """The call raises an error of this kind with these words in it."""
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
