"""Study of preservation: is damage told from what is harmless?"""
