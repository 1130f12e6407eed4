-- Local item suggestion: who sells things of a category in some states.
SELECT p.name, p.city, p.state, a.id
FROM auction a
JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')
