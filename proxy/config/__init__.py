"""Settings, rules and keys: text in, frozen values out."""
