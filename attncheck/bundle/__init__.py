"""The bundle of a failure: all that somebody needs who has never heard of attncheck, as a folder and a zip file."""
