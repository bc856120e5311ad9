"""Whether two trees answer alike: each line of the corpora and each recording through both, compared byte for byte."""
