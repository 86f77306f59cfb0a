from tests.logged import log as log  # what each test of this package logs
