"""What is measured, where from, what is alarming and how it looks: scraping, rules and dashboards."""
