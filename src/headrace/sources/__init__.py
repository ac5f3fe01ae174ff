"""Where data comes from: files and ports. Bytes become typed Arrow rows here; what cannot is rejected with a reason."""
