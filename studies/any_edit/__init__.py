"""The study of `any-edit`: is a score of following times preservation worth its name where the truth is known?"""
