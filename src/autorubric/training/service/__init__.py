"""A reward service for trainers on other machines."""
