"""The report of an audit of a reward, as words and as one self-contained page.

`report_text` says what was found, `page` writes the page with its drawings and thumbnails.
`figures` writes and reads the JSON. `chosen_edits` is what commands and the app run an audit with.
"""
